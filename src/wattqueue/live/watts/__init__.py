"""What running jobs count for, how far their licences may fall, and the bound that every write passes."""
