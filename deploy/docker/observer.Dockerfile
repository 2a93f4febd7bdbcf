# docker build --file deploy/docker/observer.Dockerfile --tag headgate-observer .
# The hot path is compiled; versions are those of the lock.
FROM python:3.11-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
WORKDIR /src
COPY requirements-build.lock requirements.lock ./
RUN pip install --require-hashes --requirement requirements-build.lock \
    && sed -e '/--hash=/d' -e 's/ *\\$//' requirements.lock > constraints.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY observer observer
COPY agent agent
COPY examples examples
COPY evaluation evaluation
COPY hbase-conf hbase-conf
# The compiler reads the types of what is imported: it has to be there.
RUN pip install --constraint constraints.txt --no-build-isolation ".[observer]" mypy \
    && HATCH_BUILD_HOOK_ENABLE_CUSTOM=true \
        pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && python -m venv /opt/headgate \
    && /opt/headgate/bin/pip install --no-cache-dir --constraint constraints.txt \
        "$(echo /dist/headgate-*.whl)[observer]"

FROM python:3.11-slim-bookworm
COPY --from=build /opt/headgate /opt/headgate
RUN useradd --system --uid 10001 headgate \
    && install --directory --owner headgate /var/lib/headgate-observer
USER 10001
VOLUME /var/lib/headgate-observer
# Clients of Thrift1 and Thrift2; /metrics and /healthz.
EXPOSE 9190 9191 9192
ENTRYPOINT ["/opt/headgate/bin/headgate", "observer", "--config", "/etc/headgate/observer.toml"]
