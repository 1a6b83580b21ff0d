"""The language of conditions: expression trees, and text from and to SQL."""
