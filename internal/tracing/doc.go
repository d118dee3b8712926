// Package tracing exports OpenTelemetry spans by OTLP over HTTP: a provider with a bounded queue and a deadline at
// the end. Spans are created from the measurements of a finished request, so an unsampled or untraced request has
// no cost but the lookup of its parent.
//
//	request finished ── trace.Tracer ── queue (2048 spans; more are dropped) ── POST URL/v1/traces
//
// Sampling, headers, certificates and the resource are those of the standard environment variables, such as
// OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES.
//
// Specification: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables
package tracing
