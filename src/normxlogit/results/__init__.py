"""What an explanation is: scores with everything needed to read, show and store them."""
