"""At which frequency may an entry run?"""
