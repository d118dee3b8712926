package web

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"regexp"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
	"golang.org/x/time/rate"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/localstate"
)

// A configFile is a web configuration in the format of Prometheus' exporters. It is read again for each TLS connection
// and request, as by them. Its accounts are those of the Gate.
type configFile string

// read returns the file's content, or the defaults if the name is "". The file must not be writable by every user.
func (f configFile) read() (*toolkit.Config, error) {
	if f == "" {
		return new(toolkit.Config), nil
	}
	text, err := access.ReadFile(string(f))
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	c.TLSConfig.SetDirectory(filepath.Dir(string(f)))
	return c, nil
}

func parseConfig(text []byte) (*toolkit.Config, error) {
	c := &toolkit.Config{
		TLSConfig:  toolkit.TLSConfig{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13, PreferServerCipherSuites: true},
		HTTPConfig: toolkit.HTTPConfig{HTTP2: true},
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		// The original error would quote hashes and keys.
		return nil, fmt.Errorf("%s: want the web configuration of Prometheus' exporters: tls_server_config, http_server_config, "+
			"rate_limit, basic_auth_users", cmp.Or(yamlLine.FindString(err.Error()), "not YAML"))
	}
	return c, nil
}

// yamlLine is the part of an error of package yaml that contains no value.
var yamlLine = regexp.MustCompile(`line \d+`)

// usersOf returns the accounts of a configuration: names and bcrypt hashes.
func usersOf(text []byte) (map[string]string, error) {
	c, err := parseConfig(text)
	if err != nil {
		return nil, err
	}
	users := make(map[string]string, len(c.Users))
	for name, hash := range c.Users {
		users[name] = string(hash)
	}
	return users, nil
}

// tls returns the configuration of TLS, nil if there is none.
func (f configFile) tls() (*tls.Config, error) {
	c, err := f.read()
	if err != nil || !c.TLSConfig.IsEnabled() {
		return nil, err
	}
	return toolkit.ConfigToTLSConfig(&c.TLSConfig)
}

// handler returns h with the headers and the rate limit of the file. The rate limit is that of the start.
func (f configFile) handler(h http.Handler) (http.Handler, error) {
	c, err := f.read()
	if err != nil || f == "" {
		return h, err
	}
	var limiter *rate.Limiter
	if c.RateLimiterConfig.Interval != 0 {
		limiter = rate.NewLimiter(rate.Every(c.RateLimiterConfig.Interval), c.RateLimiterConfig.Burst)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, err := f.read()
		switch {
		case err != nil:
			plain(w, http.StatusInternalServerError, "the file of option web-config-file cannot be read: see the log")
			return
		case limiter != nil && !limiter.Allow():
			plain(w, http.StatusTooManyRequests, "too many requests: see rate_limit in the file of option web-config-file")
			return
		}
		for name, value := range now.HTTPConfig.Header {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	}), nil
}

// serve serves requests on l, with TLS if the file has a certificate.
func (f configFile) serve(l net.Listener, s *http.Server) error {
	h, err := f.handler(s.Handler)
	if err != nil {
		return err
	}
	s.Handler = h
	if s.TLSConfig, err = f.tls(); err != nil {
		return err
	}
	if s.TLSConfig == nil {
		return s.Serve(l)
	}
	if c, err := f.read(); err != nil || !c.HTTPConfig.HTTP2 {
		s.TLSNextProto = make(map[string]func(*http.Server, *tls.Conn, http.Handler)) // turns HTTP/2 off
	}
	s.TLSConfig.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := f.tls()
		if err != nil {
			return nil, err
		}
		if now == nil {
			return nil, errors.New("the file of option web-config-file has no certificate any more")
		}
		now.NextProtos = s.TLSConfig.NextProtos
		return now, nil
	}
	return s.ServeTLS(l, "", "")
}

// NewGate returns the gate of a server whose TLS and accounts are defined in a web configuration in the format of
// Prometheus' exporters, where all accounts are operators, or in a file of accounts with roles. Both names may be "":
// then every client is an operator.
func NewGate(config, accountsFile string, log *slog.Logger) (*access.Gate, error) {
	if err := CheckConfig(config, accountsFile); err != nil {
		return nil, err
	}
	switch {
	case accountsFile != "":
		g, err := access.NewGate(accountsFile, log)
		if err != nil {
			return nil, fmt.Errorf("option web-accounts-file: %w", err)
		}
		return g, nil
	case config != "":
		g, err := access.NewUsersGate(config, usersOf, log)
		if err != nil {
			return nil, fmt.Errorf("option web-config-file: %w", err)
		}
		return g, nil
	}
	return access.NewOpenGate(log), nil
}

// CheckConfig checks both files.
func CheckConfig(config, accountsFile string) error {
	c, err := configFile(config).read()
	if err == nil {
		err = localstate.AreFiles(c.TLSConfig.TLSCertPath, c.TLSConfig.TLSKeyPath, c.TLSConfig.ClientCAs)
	}
	if err == nil {
		err = toolkit.Validate(config)
	}
	if err != nil {
		return fmt.Errorf("option web-config-file: %w", err)
	}
	if accountsFile == "" {
		return nil
	}
	if len(c.Users) > 0 {
		return errors.New("option web-accounts-file excludes basic_auth_users in the file of option web-config-file: move those accounts, with the same hashes")
	}
	if err := access.CheckFile(accountsFile); err != nil {
		return fmt.Errorf("option web-accounts-file: %w", err)
	}
	return nil
}

// URL returns the address of the pages on a listener: with https where the web configuration has TLS.
func (s *Server) URL(at net.Addr) string {
	if c, err := s.config.read(); err == nil && c.TLSConfig.IsEnabled() {
		return "https://" + at.String()
	}
	return "http://" + at.String()
}

// warnIfOpen logs a warning if other machines can reach the server and every client is an operator, or if
// credentials can be intercepted.
func (s *Server) warnIfOpen(at net.Addr) {
	addr, ok := at.(*net.TCPAddr)
	c, err := s.config.read()
	if !ok || addr.IP.IsLoopback() || err != nil {
		return
	}
	switch {
	case s.router.gate.Open() && c.TLSConfig.ClientAuth != "RequireAndVerifyClientCert":
		s.pages.log.Warn("HTTP server without accounts is open to other machines: every client is an operator; "+
			"set option web-accounts-file", "address", at.String())
	case !c.TLSConfig.IsEnabled():
		s.pages.log.Warn("HTTP server without TLS is open to other machines: passwords and tokens can be intercepted; "+
			"set tls_server_config in the file of option web-config-file", "address", at.String())
	}
}
