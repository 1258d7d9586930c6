"""The paper's tables and figures, and the controls that it left out."""
