"""What becomes of measured times: figures that are told, kept, averaged or divided."""
