package mysqlconn

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/taredb/tare/mysql/mysqlwire"
)

const (
	// maxLoginPacket bounds a packet from the server during login, in bytes.
	maxLoginPacket = 1 << 16

	// maxLoginRounds bounds the packets from the server before its OK or ERR.
	maxLoginRounds = 32
)

// Dial connects to a server and logs in. It gives up when ctx is done; afterwards ctx has no effect on the
// connection. If the server refuses the login, the error is a *ServerError.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("connect to a MySQL server: %w", err)
	}
	dial := cfg.DialFunc
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	nc, err := dial(ctx, cfg.network(), cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Addr, err)
	}
	c := &Client{Conn: New(nc), maxPacket: cfg.maxPacket()}
	if cfg.Heap != nil {
		c.account = &account{c: c, total: cfg.Heap}
	}
	err = c.during(ctx, func() error { return c.login(ctx, &cfg) })
	if err == nil && c.broken {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.account.close()
		_ = nc.Close() // the login's error is more informative
		return nil, fmt.Errorf("log in to %s as %q: %w", cfg.Addr, cfg.User, err)
	}
	return c, nil
}

// readGreeting reads the server's first packet, of which it returns a view.
func (c *Client) readGreeting() (h mysqlwire.Handshake, err error) {
	c.Seq = 0
	payload, err := c.ReadMessage(maxLoginPacket)
	if err != nil {
		return h, fmt.Errorf("read the greeting: %w", err)
	}
	err = h.Decode(payload)
	if errors.Is(err, mysqlwire.ErrRefused) {
		err = decodeServerError(payload, c.ServerVersion)
	}
	return h, err
}

// login performs the login from the greeting to the server's OK.
func (c *Client) login(ctx context.Context, cfg *Config) error {
	h, err := c.readGreeting()
	if err != nil {
		return err
	}
	if !h.Capabilities.Has(capsBase) {
		return errors.New("the server speaks the protocol from before MySQL 4.1")
	}
	c.ServerVersion, c.ConnectionID = string(h.ServerVersion), h.ConnectionID
	plugin := string(h.AuthPlugin)

	r := mysqlwire.HandshakeResponse{
		Capabilities: (capsBase | capsUsual | cfg.Capabilities) & h.Capabilities,
		MaxPacket:    uint32(min(c.maxPacket, 1<<30)),
		Charset:      cfg.charset(),
		User:         []byte(cfg.User),
		Attrs:        cfg.attributes(),
	}
	if cfg.Database != "" {
		if !h.Capabilities.Has(mysqlwire.CapConnectWithDB) {
			return errors.New("the server takes no database with the login")
		}
		r.Capabilities |= mysqlwire.CapConnectWithDB
		r.Database = []byte(cfg.Database)
	}
	if err := c.maybeTLS(ctx, cfg, h.Capabilities, &r); err != nil {
		return err
	}
	c.Capabilities = r.Capabilities

	x := &exchange{
		password: cfg.Password, secure: c.IsTLS() || cfg.network() == "unix",
		clearText: cfg.AllowClearText, key: cfg.ServerKey,
	}
	if plugin == "" || !knowsPlugin(plugin) {
		plugin = PluginNative // the server switches to the account's method
	}
	if r.AuthResponse, err = x.start(plugin, h.AuthData); err != nil {
		return err
	}
	if len(r.AuthResponse) > 255 && !r.Capabilities.Has(mysqlwire.CapPluginAuthLenenc) {
		return errors.New("the password is longer than the server takes")
	}
	r.AuthPlugin = []byte(plugin)
	if err := c.WriteMessage(r.AppendTo(nil)); err != nil {
		return fmt.Errorf("send the login: %w", err)
	}
	return c.authenticate(x)
}

// maybeTLS starts TLS according to the mode and the server's capabilities.
func (c *Client) maybeTLS(ctx context.Context, cfg *Config, server mysqlwire.Capability, r *mysqlwire.HandshakeResponse) error {
	switch {
	case cfg.TLSMode == TLSDisabled,
		cfg.TLSMode == TLSPreferred && (cfg.network() == "unix" || !server.Has(mysqlwire.CapSSL)):
		return nil
	case !server.Has(mysqlwire.CapSSL):
		return &TLSError{fmt.Errorf("tls mode is %v, but the server offers no TLS", cfg.TLSMode)}
	}
	r.Capabilities |= mysqlwire.CapSSL
	request := mysqlwire.SSLRequest{Capabilities: r.Capabilities, MaxPacket: r.MaxPacket, Charset: r.Charset}
	return c.StartTLS(ctx, request, ClientTLS(cfg.TLSMode, cfg.TLS, cfg.host()))
}

// authenticate responds to the server until it sends OK or ERR.
func (c *Client) authenticate(x *exchange) error {
	for range maxLoginRounds {
		payload, err := c.ReadMessage(maxLoginPacket)
		if err != nil {
			return fmt.Errorf("read the login response: %w", err)
		}
		if len(payload) == 0 {
			return fmt.Errorf("read the login response: %w", mysqlwire.ErrShortPacket)
		}
		var resp []byte
		switch mark := payload[0]; {
		case mark == mysqlwire.MarkOK:
			return c.recordStatus(payload)
		case mark == mysqlwire.MarkErr:
			return decodeServerError(payload, c.ServerVersion)
		case mark == mysqlwire.MarkEOF:
			var a mysqlwire.AuthSwitchRequest
			if err := a.Decode(payload); err != nil {
				return err
			}
			if a.Old {
				return &unknownPluginError{"mysql_old_password"}
			}
			resp, err = x.start(string(a.Plugin), a.Data)
			if resp == nil && err == nil {
				resp = []byte{} // an empty password is an empty packet
			}
		case mark == mysqlwire.MarkAuthMore:
			resp, err = x.next(payload[1:])
		case x.plugin == PluginDialog: // its questions have no mark byte
			resp, err = x.next(payload)
		case mark == mysqlwire.MarkNextFactor:
			return errors.New("the account needs a second factor, which is not supported")
		default:
			return fmt.Errorf("read the login response: %w: first byte is 0x%02x", mysqlwire.ErrMalformedPacket, mark)
		}
		if err != nil {
			return fmt.Errorf("authenticate by %s: %w", x.plugin, err)
		}
		if resp == nil {
			continue
		}
		if err := c.WriteMessage(resp); err != nil {
			return fmt.Errorf("send the login response: %w", err)
		}
	}
	return fmt.Errorf("the server has not decided the login after %d packets", maxLoginRounds)
}
