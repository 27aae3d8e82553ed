"""What a region gives the device to do, and where its values live."""
