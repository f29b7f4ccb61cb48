"""Fine-tuning the models that the experiments explain."""
