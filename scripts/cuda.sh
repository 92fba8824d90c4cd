#!/usr/bin/env bash
# Installs nvcc and its headers from PyPI into target/cuda, without a driver and without a GPU, and prints the path of nvcc. It fetches some
# 100 MB and needs 280 MB. The versions are those of the CUDA that PyTorch 2.11 was built with.   scripts/cuda.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$(scripts/python.sh --venv target/cuda nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
    nvidia-cuda-cccl==13.0.85 nvidia-cuda-runtime==13.0.96)
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$packages/nvidia/cu13/bin/nvcc"
