package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Options configure a Provider.
type Options struct {
	URL     string // of the receiver, without /v1/traces
	Service string // service.name, unless OTEL_SERVICE_NAME is set
	Version string
	Log     *slog.Logger // required; receives errors of exports
}

// closeLimit bounds the export of the last spans.
const closeLimit = 5 * time.Second

// A Provider exports spans in the background. The methods of a nil one do nothing.
type Provider struct{ sdk *sdk.TracerProvider }

// Open starts a provider. It does not connect. The handler of the SDK's errors is one for the process.
func Open(ctx context.Context, o Options) (*Provider, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Warn("spans not exported", "error", err) }))
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimSuffix(o.URL, "/")+"/v1/traces"), otlptracehttp.WithProxy(proxy))
	if err != nil {
		return nil, fmt.Errorf("create exporter of spans: %w", err)
	}
	r, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", o.Service), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return &Provider{sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(r))}, nil
}

// errRedirected reports a receiver that redirects exports.
var errRedirected = errors.New("the receiver redirects to another address, which would get the headers of OTEL_EXPORTER_OTLP_HEADERS too: name that address")

// proxy returns the proxy of a request. A redirected one is an error: net/http sends all headers along but a few that it knows.
func proxy(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errRedirected
	}
	return http.ProxyFromEnvironment(r)
}

// Tracer returns the tracer of a package; of a nil Provider one without spans.
func (p *Provider) Tracer(name string) trace.Tracer {
	if p == nil {
		return noop.NewTracerProvider().Tracer(name)
	}
	return p.sdk.Tracer(name)
}

// Close exports the spans that wait, for at most 5 s.
func (p *Provider) Close() error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if err := p.sdk.Shutdown(ctx); err != nil {
		return fmt.Errorf("export the last spans: %w", err)
	}
	return nil
}
