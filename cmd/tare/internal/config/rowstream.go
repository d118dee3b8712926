package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// Rowstream are the options of tare rowstream.
type Rowstream struct {
	section
	ConfigFile string

	From    ControlURL
	FromTLS mysqlconn.TLSMode
	FromCA  string // file; "": the system's authorities
	FromKey ServerKey

	Listen Address

	TLSCert, TLSKey, TLSClientCA string // files

	Token Token

	Service wire.ServiceOptions `json:"-"` // those that are options as they are; the wiring sets the others

	Server
}

// NewRowstream returns the options of tare rowstream with their defaults.
func NewRowstream() *Rowstream {
	c := &Rowstream{}
	s := newSet("rowstream", &c.ConfigFile)
	s.Control(&c.From, "from", "account on the source: mysql://user:password@host:port, with SELECT, for --follow REPLICATION SLAVE and REPLICATION CLIENT; clients can read all that it can; required")
	tlsMode(s, &c.FromTLS, "from-tls", "TLS towards --from")
	c.FromKey.declare(s, "from")
	s.String(&c.FromCA, "from-ca", "file", "", "CA certificates (PEM) of --from; the system's when empty")
	s.Address(&c.Listen, "listen", "127.0.0.1:3319", "address for tare copy --from tare://…")
	s.OptionalAddress(&c.HTTP, "http", "127.0.0.1:8319", "address for metrics, health and the query log; off for none")
	s.in("TLS and token")
	s.String(&c.TLSCert, "tls-cert", "file", "", "certificate of --listen (PEM); it or a token is required when --listen is not loopback")
	s.String(&c.TLSKey, "tls-key", "file", "", "key of --tls-cert (PEM)")
	s.String(&c.TLSClientCA, "tls-client-ca", "file", "", "CA certificates of clients (PEM): only clients with a certificate are served")
	c.Token.declare(s, "", "token that clients must send")
	s.in("Limits")
	s.Int(&c.Service.MaxSnapshots, "max-snapshots", "16", 1, "concurrent snapshots; a copy uses one")
	s.Int(&c.Service.MaxWorkers, "max-workers", "64", 1, "workers, and so connections to --from, that one snapshot may have")
	s.Int(&c.Service.MaxFollows, "max-follows", "16", 1, "concurrent change streams; a copy with --follow uses one")
	s.Duration(&c.DrainTimeout, "drain-timeout", "30s", "time for open snapshots after SIGTERM")
	s.in("")
	s.String(&c.DataDir, "data-dir", "dir", "", "directory for the query log's sequence file; when empty rowstream in $STATE_DIRECTORY, $XDG_STATE_HOME/tare or ~/.local/state/tare")
	c.HTTPAccess.declare(s)
	c.Log.declareRequests(s, requestLog{
		kind: "call", fields: wire.LogFields(),
		example: "call=read table=shop.orders total_ns>1s",
		values:  "possible values in error texts", rows: "rows", digest: "call and table",
	})
	c.Diag.declare(s)
	s.need("without --tls-cert", func() bool { return c.TLSCert != "" }, "tls-client-ca")
	s.need("unless --from-tls is verify-ca or verify-identity", func() bool { return verifies(c.FromTLS) }, "from-ca")
	s.need("where --from-tls requires TLS", func() bool { return !c.FromTLS.Required() }, "from-public-key", "from-get-public-key")
	s.need("without --log-file: no other option keeps files there", func() bool { return c.Log.Sink.Path != "" }, "data-dir")
	c.HTTPAccess.need(s)
	c.Log.need(s, &c.HTTPAccess)
	c.set = s
	return c
}

// Load sets every option and validates them together. The error has all errors, warnings the doubtful values.
func (c *Rowstream) Load(in Input) (warnings []string, err error) {
	if warnings, err = c.load(in, c.Validate); err != nil {
		return warnings, err
	}
	if !c.Listen.Loopback() && c.TLSCert == "" {
		warnings = append(warnings, fmt.Sprintf("--listen %s without --tls-cert: token and rows can be intercepted on the network", c.Listen))
	}
	return warnings, nil
}

// Validate reports options that contradict each other. A missing source is left to
// Ready: a configuration file for another subcommand has none.
func (c *Rowstream) Validate() error {
	errs := c.Token.validate("")
	if (c.TLSCert == "") != (c.TLSKey == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key need each other"))
	}
	if !c.Listen.Loopback() && c.TLSClientCA == "" && !c.Token.given() && c.TLSCert == "" {
		errs = append(errs, fmt.Errorf("--listen %s is open to other machines: it needs --tls-cert or --token-file, better both", c.Listen))
	}
	errs = append(errs, c.FromKey.validate())
	errs = append(errs, c.HTTPAccess.validate()...)
	if c.HTTP == c.Listen && !strings.HasSuffix(string(c.HTTP), ":0") {
		errs = append(errs, errors.New("--http and --listen are the same address"))
	}
	return errors.Join(append(errs, c.Log.validate())...)
}

// Ready returns an error that names missing options.
func (c *Rowstream) Ready() error {
	if c.From.Addr == "" {
		return errors.New("--from is required: whose rows to serve, such as --from mysql://app@db1")
	}
	return nil
}

// A Token is a secret shared by both sides, given directly or in a file.
type Token struct {
	text Secret
	file string
}

// declare adds the options of a token to a section.
func (t *Token) declare(s *Set, prefix, help string) {
	declare(s, &t.text, Option{
		Name: prefix + "token", Kind: KindSecret,
		Help: help + "; prefer " + envName(prefix+"token") + " or --" + prefix + "token-file",
	}, func(text string) (Secret, error) { return NewSecret(text), nil }, func(v Secret) string {
		if v.Reveal() == "" {
			return ""
		}
		return mask
	})
	s.String(&t.file, prefix+"token-file", "file", "", "file with the token in its first line")
}

func (t *Token) given() bool { return t.text.Reveal() != "" || t.file != "" }

func (t *Token) validate(prefix string) []error {
	if t.text.Reveal() != "" && t.file != "" {
		return []error{fmt.Errorf("--%stoken and --%stoken-file exclude each other", prefix, prefix)}
	}
	return nil
}

// Read returns the token; "" if there is none.
func (t *Token) Read() (string, error) {
	if t.file == "" {
		return t.text.Reveal(), nil
	}
	text, err := ReadSecretFile(t.file)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return text, nil
}

// ReadSecretFile returns the first line of a file, which must not be empty.
func ReadSecretFile(path string) (string, error) {
	text, err := localstate.ReadInput(path)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return "", fmt.Errorf("the first line of %s is empty", path)
	}
	return line, nil
}

// A CopySource is the source of rows for tare copy: a MySQL-compatible server, or tare rowstream.
type CopySource struct {
	MySQL ControlURL
	Tare  Address       // "": a MySQL-compatible server
	Dump  bucketurl.URL // zero: not a dump
}

const tareScheme = "tare://"

// String returns the URL with the password masked.
func (s CopySource) String() string {
	switch {
	case s.Tare != "":
		return tareScheme + string(s.Tare)
	case s.IsDump():
		return s.Dump.String()
	}
	return s.MySQL.String()
}

// IsDump reports whether a dump is loaded.
func (s CopySource) IsDump() bool { return s.Dump.String() != "" }

func (s CopySource) given() bool { return s.Tare != "" || s.MySQL.Addr != "" || s.IsDump() }

func parseCopySource(text string) (s CopySource, err error) {
	if bucketurl.HasScheme(text) {
		s.Dump, err = bucketurl.Parse(text)
		return s, err
	}
	if !strings.HasPrefix(text, tareScheme) {
		s.MySQL, err = parseControlURL(text)
		if err != nil {
			err = fmt.Errorf("%w; or tare://host:port of a tare rowstream; or file:///directory or s3://bucket/prefix of a dump", err)
		}
		return s, err
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.Port() == "" {
		return s, errors.New("want tare://host:port; a token goes into --from-token-file")
	}
	s.Tare, err = parseAddress(u.Host)
	return s, err
}
