"""Paper 5, section 5: load targets with the consent of users on a machine of 151 nodes."""
