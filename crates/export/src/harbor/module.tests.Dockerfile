# The verifier's container: no file of the agent's but the program gets here.
FROM IMAGE
USER root
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ libc6-dev python3 python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/torch \
 && /opt/torch/bin/pip install --no-cache-dir torch==2.11.0 numpy==2.4.6
ENV FLOPSMITH_PYTHON=/opt/torch/bin/python
# The container is thrown away after it has judged one program. Its runtime may forbid some parts of the jail.
ENV FLOPSMITH_ALLOW_WEAKER_JAIL=1
WORKDIR /app
COPY . /tests
ENTRYPOINT []
