# docker build --file deploy/docker/agent.Dockerfile --tag headgate-agent .
# Steps run in it: what they import belongs into an image that is made FROM this one.
FROM python:3.11-slim-bookworm AS build
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
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && python -m venv /opt/headgate \
    && /opt/headgate/bin/pip install --no-cache-dir --constraint constraints.txt \
        "$(echo /dist/headgate-*.whl)[agent,spark]"

FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/headgate /opt/headgate
RUN useradd --system --uid 10001 headgate \
    && install --directory --owner headgate /var/lib/headgate-agent
USER 10001
# Beside what workers leave there is the key by which agents know their own rows in HBase.
ENV XDG_STATE_HOME=/var/lib/headgate-agent
VOLUME /var/lib/headgate-agent
# HTTP API, /metrics and /healthz.
EXPOSE 7680
ENTRYPOINT ["/opt/headgate/bin/headgate", "agent", "--config", "/etc/headgate/agent.toml"]
