package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/internal/access"
)

// NewGate returns the gate of a server whose TLS and accounts are defined in exporter-toolkit's web
// configuration, where all accounts are operators, or in a file of accounts with roles. Both names may be "":
// then every client is an operator.
func NewGate(configFile, accountsFile string, log *slog.Logger) (*access.Gate, error) {
	if err := CheckConfig(configFile, accountsFile); err != nil {
		return nil, err
	}
	if accountsFile != "" {
		g, err := access.NewGate(accountsFile, log)
		if err != nil {
			return nil, fmt.Errorf("--web-accounts-file: %w", err)
		}
		return g, nil
	}
	return access.NewOpenGate(func(r *http.Request) string {
		user, _, _ := r.BasicAuth()
		if c, err := readToolkit(configFile); err == nil && c.has(user) {
			return user // exporter-toolkit has checked the password
		}
		return ""
	}, log), nil
}

// CheckConfig checks both files.
func CheckConfig(configFile, accountsFile string) error {
	if err := toolkit.Validate(configFile); err != nil {
		return fmt.Errorf("--web-config-file: %w", err)
	}
	if accountsFile == "" {
		return nil
	}
	c, err := readToolkit(configFile)
	if err != nil {
		return err
	}
	if len(c.Users) > 0 {
		return errors.New("--web-accounts-file excludes basic_auth_users in --web-config-file: move those accounts, with the same hashes")
	}
	if err := access.CheckFile(accountsFile); err != nil {
		return fmt.Errorf("--web-accounts-file: %w", err)
	}
	return nil
}

// toolkitFile is the part of exporter-toolkit's configuration that determines who may call a server.
type toolkitFile struct {
	Users map[string]any `yaml:"basic_auth_users"`
	TLS   struct {
		ClientAuth string `yaml:"client_auth_type"`
		CertFile   string `yaml:"cert_file"`
		Cert       string `yaml:"cert"`
	} `yaml:"tls_server_config"`
}

func (c *toolkitFile) has(user string) bool {
	_, ok := c.Users[user]
	return ok && user != ""
}

// authenticates reports whether clients need an account or a certificate.
func (c *toolkitFile) authenticates() bool {
	return len(c.Users) > 0 || c.TLS.ClientAuth == "RequireAndVerifyClientCert"
}

func readToolkit(path string) (c toolkitFile, err error) {
	if path == "" {
		return c, nil
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("read --web-config-file: %w", err)
	}
	return c, nil
}

// warnIfOpen logs a warning if other machines can reach the server and every client is an operator, or if
// credentials can be intercepted.
func (s *Server) warnIfOpen(at net.Addr) {
	addr, ok := at.(*net.TCPAddr)
	c, err := readToolkit(s.opts.ConfigFile)
	if !ok || addr.IP.IsLoopback() || err != nil {
		return
	}
	switch {
	case s.gate.Open() && !c.authenticates():
		s.opts.Log.Warn("HTTP server without accounts is open to other machines: every client is an operator; "+
			"set --web-accounts-file", "address", at.String())
	case !c.encrypts():
		s.opts.Log.Warn("HTTP server without TLS is open to other machines: passwords and tokens can be intercepted; "+
			"set tls_server_config in --web-config-file", "address", at.String())
	}
}

// encrypts reports whether the server has a certificate.
func (c *toolkitFile) encrypts() bool { return c.TLS.CertFile != "" || c.TLS.Cert != "" }
