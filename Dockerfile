# Builds the image with BuildKit. Releases use `make image` instead, which is reproducible and
# needs no Docker. The content is the same: only the static binaries from cmd/ at the root, without
# those that need no cluster and the token agent, and an unprivileged user without a name.
#
#   docker build --build-arg VERSION=v1.2.3 --build-arg REVISION=$(git rev-parse --short=12 HEAD) .

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /source
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY config/crd config/crd
COPY internal internal
ARG TARGETARCH
ARG VERSION=unknown
ARG REVISION=unknown
RUN stamp=github.com/realmkeeper/realmkeeper/internal/contract/version && \
    CGO_ENABLED=0 GOOS=linux GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -tags=grpcnotrace \
    -ldflags "-s -w -X $stamp.Version=$VERSION -X $stamp.Revision=$REVISION" -o /image/ $(go list ./cmd/... | grep -v -e /realmkeeper- -e /token-agent$)

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Realmkeeper" \
      org.opencontainers.image.description="OAuth 2.0 realms and API credentials as Kubernetes resources" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /image/ /
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/operator"]
