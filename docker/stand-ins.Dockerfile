# Stand-ins for other people's images of docker-compose.yml, for machines on which no image registry can be reached:
# scripts/images.sh builds them under the same names.

FROM debian:bookworm-slim AS nats
LABEL org.flopsmith.stand-in="nats"
RUN apt-get update \
 && apt-get install -y --no-install-recommends wget \
 && rm -rf /var/lib/apt/lists/*
COPY nats-server /usr/local/bin/nats-server
ENTRYPOINT ["nats-server"]

FROM debian:bookworm-slim AS minio
LABEL org.flopsmith.stand-in="minio"
RUN apt-get update \
 && apt-get install -y --no-install-recommends curl \
 && rm -rf /var/lib/apt/lists/*
COPY s3_server /usr/bin/minio
