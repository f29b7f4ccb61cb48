"""Wing: two models compared, such as before and after fine-tuning: where their answers differ, and by which words."""
