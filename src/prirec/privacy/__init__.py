"""What leaves a device, and at what price: mechanisms, exact randomness, and the rules that count the loss."""
