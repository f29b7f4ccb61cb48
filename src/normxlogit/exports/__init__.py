"""Wing: results for other programs: SHAP's explanations, and tables of LaTeX."""
