"""What is measured: clocks, events, stopwatches, and the regions between two of their readings."""
