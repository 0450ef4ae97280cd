"""What users call to steer recording and to ask for gradients."""
