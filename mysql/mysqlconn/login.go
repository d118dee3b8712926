package mysqlconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Login is a login whose capabilities were negotiated with another party, as when a gateway moves a session
// to another server unnoticed by its client.
type Login struct {
	User, Password string
	Capabilities   mysqlwire.Capability // all of them except TLS and the database
	Charset        uint8
	MaxPacket      uint32 // bytes; as announced by the client

	// TLS is the configuration for TLS; nil: no TLS.
	TLS *tls.Config

	ServerKey ServerKey // encrypts the password without TLS

	AllowClearText bool // as in Config

	Attributes map[string]string // connection attributes, added to Tare's own
}

// A MissingCapabilitiesError reports that a server lacks capabilities that the connection requires.
type MissingCapabilitiesError struct {
	Missing mysqlwire.Capability
}

func (e *MissingCapabilitiesError) Error() string {
	return fmt.Sprintf("the server does not offer the capabilities %#x that the connection uses", uint64(e.Missing))
}

// LogIn logs in over conn, which is connected and from which nothing was read. It gives up when ctx is done;
// afterwards ctx has no effect on the connection. The caller closes conn on error.
func LogIn(ctx context.Context, conn *Conn, l Login) (*Client, error) {
	c := &Client{Conn: conn, maxPacket: defaultMaxPacket}
	err := c.during(ctx, func() error { return c.loginAs(ctx, &l) })
	if err == nil && c.broken {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("log in as %q: %w", l.User, err)
	}
	return c, nil
}

func (c *Client) loginAs(ctx context.Context, l *Login) error {
	h, err := c.readGreeting()
	if err != nil {
		return err
	}
	c.ServerVersion, c.ConnectionID = string(h.ServerVersion), h.ConnectionID
	wanted := l.Capabilities &^ (mysqlwire.CapSSL | mysqlwire.CapConnectWithDB)
	if l.TLS != nil {
		wanted |= mysqlwire.CapSSL
	}
	if missing := wanted &^ (h.Capabilities | mysqlwire.CapLongPassword); missing != 0 {
		return &MissingCapabilitiesError{missing}
	}
	r := mysqlwire.HandshakeResponse{
		Capabilities: wanted, MaxPacket: l.MaxPacket, Charset: l.Charset, User: []byte(l.User),
		Attrs: (&Config{Attributes: l.Attributes}).attributes(),
	}
	plugin, challenge := string(h.AuthPlugin), h.AuthData
	if plugin == "" || !knowsPlugin(plugin) || !wanted.Has(mysqlwire.CapPluginAuth) {
		plugin = PluginNative
	}
	x := &exchange{password: l.Password, secure: l.TLS != nil, clearText: l.AllowClearText, key: l.ServerKey}
	challenge = append([]byte(nil), challenge...) // the TLS handshake overwrites the buffer
	if l.TLS != nil {
		request := mysqlwire.SSLRequest{Capabilities: wanted, MaxPacket: r.MaxPacket, Charset: r.Charset}
		if err := c.StartTLS(ctx, request, l.TLS); err != nil {
			return err
		}
	}
	c.Capabilities = wanted
	if r.AuthResponse, err = x.start(plugin, challenge); err != nil {
		return err
	}
	if len(r.AuthResponse) > 255 && !wanted.Has(mysqlwire.CapPluginAuthLenenc) {
		return errors.New("the password is longer than the connection takes")
	}
	r.AuthPlugin = []byte(plugin)
	if err := c.WriteMessage(r.AppendTo(nil)); err != nil {
		return fmt.Errorf("send the login: %w", err)
	}
	return c.authenticate(x)
}

// Send sends a command whose response is a single OK or ERR, such as COM_INIT_DB or COM_RESET_CONNECTION, or
// an EOF, as for COM_SET_OPTION.
func (c *Client) Send(ctx context.Context, payload []byte) error {
	err := c.exchange(ctx, payload, func(resp []byte) error {
		if mysqlwire.IsEOF(resp) {
			return nil
		}
		return c.recordStatus(resp)
	})
	if err != nil {
		return fmt.Errorf("send %s: %w", mysqlwire.Command(payload[0]), err)
	}
	return nil
}

// Prepare prepares a statement and skips the definitions in the response.
func (c *Client) Prepare(ctx context.Context, sql []byte) (ok mysqlwire.PrepareOK, err error) {
	err = c.exchange(ctx, mysqlwire.StmtPrepare{SQL: sql}.AppendTo(nil), func(resp []byte) error {
		if err := ok.Decode(resp, c.Capabilities); err != nil {
			return err
		}
		for _, n := range []uint16{ok.Params, ok.Columns} {
			if n == 0 {
				continue
			}
			if err := c.skipDefinitions(int(n), ok.NoDefinitions); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return ok, fmt.Errorf("prepare: %w", err)
	}
	return ok, nil
}

// exchange sends a command and passes the first packet of the response, unless it is an error, to then.
func (c *Client) exchange(ctx context.Context, payload []byte, then func(resp []byte) error) error {
	if c.broken {
		return ErrBroken
	}
	err := c.during(ctx, func() error {
		c.Seq = 0
		if err := c.WriteMessage(payload); err != nil {
			return err
		}
		resp, err := c.read()
		if err != nil {
			return err
		}
		if resp[0] == mysqlwire.MarkErr {
			return decodeServerError(resp, c.ServerVersion)
		}
		return then(resp)
	})
	if _, refused := errors.AsType[*ServerError](err); err != nil && !refused {
		c.broken = true
	}
	return err
}
