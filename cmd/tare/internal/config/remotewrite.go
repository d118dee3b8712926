package config

import (
	"errors"
	"net/url"
	"strings"

	"github.com/taredb/tare/internal/history/remotewrite"
)

// A RemoteWrite is where the series of a history are sent besides.
type RemoteWrite struct {
	URL       RemoteURL
	Version   remotewrite.Version
	TokenFile string
	Tenant    string
	CAFile    string
}

// A RemoteURL is the URL of a receiver, with a user and a password or without.
type RemoteURL struct{ url *url.URL }

// URL returns the URL, nil where none is set.
func (u RemoteURL) URL() *url.URL { return u.url }

// String returns the URL with the password masked.
func (u RemoteURL) String() string {
	if u.url == nil {
		return ""
	}
	shown := *u.url
	if _, ok := shown.User.Password(); ok {
		shown.User = url.UserPassword(shown.User.Username(), mask)
	}
	return shown.String()
}

// errRemoteURL never repeats the value: it may hold a password.
var errRemoteURL = errors.New("want http://host:port/path or https://…, for Prometheus http://host:9090/api/v1/write; with :/?#[]@% in user and password percent-encoded")

func parseRemoteURL(s string) (RemoteURL, error) {
	if s == "" {
		return RemoteURL{}, nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Fragment != "":
		return RemoteURL{}, errRemoteURL
	case strings.Trim(u.Path, "/") == "":
		return RemoteURL{}, errors.New("the URL has no path: that of Prometheus is /api/v1/write, of Mimir /api/v1/push")
	case u.User != nil && u.User.Username() == "":
		return RemoteURL{}, errRemoteURL
	}
	return RemoteURL{u}, nil
}

func (c *RemoteWrite) enabled() bool { return c.URL.url != nil }

func (c *RemoteWrite) declare(s *Set) {
	s.in("Remote write")
	declare(s, &c.URL, Option{
		Name: "history-remote-write", Kind: "url",
		Help: "receiver of the history by remote write: https://user:password@host/api/v1/write",
	}, parseRemoteURL, RemoteURL.String)
	Enum(s, &c.Version, "history-remote-write-version", "version of remote write that the receiver takes; 1.0 does not confirm samples", remotewrite.V2, remotewrite.V1)
	s.String(&c.TokenFile, "history-remote-write-token-file", "file", "", "file with a bearer token; re-read for each request")
	s.String(&c.Tenant, "history-remote-write-tenant", "name", "", "tenant of the receiver, sent as X-Scope-OrgID")
	s.String(&c.CAFile, "history-remote-write-ca", "file", "", "CA certificates (PEM) of the receiver; the system's when empty")
	s.need("without --history-remote-write", c.enabled,
		"history-remote-write-version", "history-remote-write-token-file", "history-remote-write-tenant", "history-remote-write-ca")
	s.need("with http://", func() bool { return c.enabled() && c.URL.url.Scheme == "https" }, "history-remote-write-ca")
}

func (c *RemoteWrite) validate() (errs []error) {
	if !c.enabled() {
		return nil
	}
	if c.TokenFile != "" && c.URL.url.User != nil {
		errs = append(errs, errors.New("--history-remote-write-token-file and the user in --history-remote-write exclude each other"))
	}
	if strings.ContainsFunc(c.Tenant, func(r rune) bool { return r <= ' ' || r > '~' }) {
		errs = append(errs, errors.New("--history-remote-write-tenant: want printable ASCII characters without spaces"))
	}
	return errs
}
