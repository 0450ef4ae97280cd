"""What carries messages between trainers and servers, and who may send them."""
