# The agent's container: compilers, and the plain reference to test against.
FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc g++ libc6-dev make \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY reference.c /app/reference.c
