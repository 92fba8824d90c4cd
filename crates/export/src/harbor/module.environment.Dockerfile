# The agent's container: compilers, PyTorch, and the module to test against.
FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ libc6-dev make python3 python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/torch \
 && /opt/torch/bin/pip install --no-cache-dir torch==2.11.0 numpy==2.4.6
ENV PATH=/opt/torch/bin:$PATH
WORKDIR /app
COPY reference.py /app/reference.py
