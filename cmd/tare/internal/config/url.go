package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
)

const (
	mysqlScheme = "mysql://"
	mysqlPort   = "3306"
	mask        = "xxxxx" // the mask of net/url
)

// A Secret is text that is never printed: it formats as a mask under every verb, in JSON, in YAML and in
// logs. Reveal returns the text.
type Secret struct {
	text *string // a pointer, because fmt prints unexported fields without calling methods
}

// NewSecret returns a secret with a text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text of the secret.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Format writes the mask for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// MarshalText returns the mask.
func (s Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }

// LogValue returns the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(mask) }

// A ControlURL is an account on a MySQL server.
type ControlURL struct {
	User     string
	Password Secret
	Addr     Address // "" if the option is not set
}

// String returns the URL with the password masked.
func (c ControlURL) String() string {
	if c.Addr == "" {
		return ""
	}
	u := url.URL{Scheme: "mysql", Host: string(c.Addr), User: url.User(c.User)}
	if c.Password.Reveal() != "" {
		u.User = url.UserPassword(c.User, mask)
	}
	return u.String()
}

// errControl does not repeat the value, which may contain a password.
var errControl = errors.New("want mysql://user:password@host:port, with :/?#[]@% in user and password percent-encoded")

func parseControlURL(s string) (ControlURL, error) {
	if s == "" {
		return ControlURL{}, nil
	}
	u, err := parseMySQLURL(s)
	if err != nil || u.User == nil || u.User.Username() == "" {
		return ControlURL{}, errControl // url.Error quotes the input
	}
	password, _ := u.User.Password()
	return ControlURL{User: u.User.Username(), Password: NewSecret(password), Addr: Address(u.Host)}, nil
}

// parseBackend parses host, host:port or mysql://host:port.
func parseBackend(s string) (Address, error) {
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, "unix:") || strings.Contains(s, "unix://") || strings.HasPrefix(s, mysqlScheme+"/") {
		return "", errNoSocket
	}
	if strings.Contains(s, "@") {
		return "", errors.New("a backend takes no user or password: clients log in to it with their own (see --control for Tare's)")
	}
	if !strings.Contains(s, "://") {
		s = mysqlScheme + s
	}
	u, err := parseMySQLURL(s)
	if err != nil {
		return "", fmt.Errorf("want mysql://host:port or host:port: %w", err)
	}
	return Address(u.Host), nil
}

// parseMySQLURL parses a URL that has a host and no path, and adds the default port.
func parseMySQLURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, err
	}
	switch {
	case u.Scheme != "mysql":
		return nil, fmt.Errorf("%s:// is not mysql://", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("there is no host")
	case strings.Trim(u.Path, "/") != "":
		return nil, errors.New("a schema has no place here")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("parameters have no place here")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), mysqlPort)
	}
	if _, err := parseAddress(u.Host); err != nil {
		return nil, err
	}
	return u, nil
}
