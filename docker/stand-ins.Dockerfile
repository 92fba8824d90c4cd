# Stand-ins for third-party images of docker-compose.yml, for machines without access to an image registry. scripts/images.sh builds
# them under the same names.

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

# The following images belong to the profile `observability`. Grafana has no stand-in.
FROM debian:bookworm-slim AS prometheus
LABEL org.flopsmith.stand-in="prometheus"
RUN apt-get update \
 && apt-get install -y --no-install-recommends prometheus wget \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && install -d -o nobody -g nogroup /prometheus
USER nobody
WORKDIR /prometheus
ENTRYPOINT ["prometheus"]

FROM debian:bookworm-slim AS opentelemetry-collector-contrib
LABEL org.flopsmith.stand-in="opentelemetry-collector-contrib"
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libpython3.11 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY otel python/rotel/rotel-agent /usr/local/bin/
USER 10001
ENTRYPOINT ["otel"]

FROM debian:bookworm-slim AS jaeger
LABEL org.flopsmith.stand-in="jaeger"
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 wget \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY phoenix /opt/phoenix
COPY jaeger /usr/local/bin/
ENV PYTHONPATH=/opt/phoenix PYTHONDONTWRITEBYTECODE=1
USER 10001
ENTRYPOINT ["jaeger"]
