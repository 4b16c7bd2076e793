"""Jobs without ranks: a shell on nodes, JupyterLab, TensorBoard, a kernel; commands in a job."""
