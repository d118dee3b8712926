package config

import (
	"errors"
	"net/url"
)

// traces declares the receiver of a server's spans; "" for none.
func (s *Set) traces(p *string) {
	declare(s, p, Option{
		Name: "traces-otlp", Kind: "url", Group: "Diagnostics",
		Help: "send a span of each HTTP or gRPC request by OTLP to /v1/traces below this URL, such as http://127.0.0.1:4318; sampling and headers by OTEL_TRACES_SAMPLER and OTEL_EXPORTER_OTLP_HEADERS",
	}, parseTracesURL, formatString)
}

// parseTracesURL accepts URLs of an OTLP receiver, and "" for none. Its error does not quote the URL.
func parseTracesURL(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("want http://host:4318 or https://…, without user and parameters: credentials go into OTEL_EXPORTER_OTLP_HEADERS")
	}
	return s, nil
}
