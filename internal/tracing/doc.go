// Package tracing exports OpenTelemetry spans by OTLP over HTTP: a provider with a bounded queue and a deadline at
// the end. [Provider.Handler] gives each request of an HTTP handler a span. Where a
// request is measured anyway, its package creates spans from the measurements when the request has finished.
//
//	request ── trace.Tracer ── queue (2048 spans; more are dropped) ── POST URL/v1/traces
//
// An unsampled request costs the lookup of its parent, an untraced one nothing.
//
// Sampling, headers, certificates and the resource are those of the standard environment variables, such as
// OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES.
//
// Specification: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables
package tracing
