# The verifier's container: no file of the agent's but the program gets here.
FROM IMAGE
USER root
# The container is thrown away after it has judged one program. Its runtime may forbid some parts of the jail.
ENV FLOPSMITH_ALLOW_WEAKER_JAIL=1
WORKDIR /app
COPY . /tests
ENTRYPOINT []
