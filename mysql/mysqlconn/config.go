package mysqlconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

const (
	// DefaultCharset is utf8mb4_general_ci, supported by all current servers.
	DefaultCharset = 45

	// defaultMaxPacket is the longest message, in bytes, that a client announces and reads.
	defaultMaxPacket = 1 << 26
)

// A Config specifies the server and the account for Dial.
type Config struct {
	Network  string // "tcp" or "unix"; empty means "tcp"
	Addr     string // host and port, or the socket's path
	User     string
	Password string
	Database string // empty: none

	TLSMode TLSMode
	TLS     *tls.Config // authorities and client certificates; nil: the system's

	// AllowClearText lets mysql_clear_password and dialog (PAM) send the password unencrypted if the server
	// requests it, but only over TLS or a Unix socket.
	AllowClearText bool

	ServerKey ServerKey // encrypts the password on connections without TLS

	Charset   uint8 // collation id; 0 means DefaultCharset
	MaxPacket int   // bytes; 0 means defaultMaxPacket

	// Capabilities are requested in addition to the usual ones if the server offers them: for example
	// mysqlwire.CapMultiStatements, or mysqlwire.CapLocalFiles for Client.Load. A Client never opens a file
	// on the server's request.
	Capabilities mysqlwire.Capability

	Attributes map[string]string // connection attributes, added to Tare's own

	// Patience is for packages that use connections for long: the time that the server may be unreachable
	// within a command. 0 means their default. See Client.Watch.
	Patience time.Duration

	// Heap counts the heap bytes of the connections that are open: their buffers and those of Client.Hold. nil: they are not
	// counted.
	Heap *atomic.Int64

	// DialFunc opens the socket; nil means net.Dialer.
	DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)
}

// capsBase are capabilities that Dial requires; capsUsual are used if the server offers them; capsNever
// change the protocol in ways that Client does not implement.
const (
	capsBase  = mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection
	capsUsual = mysqlwire.CapLongPassword | mysqlwire.CapLongFlag | mysqlwire.CapTransactions |
		mysqlwire.CapMultiResults | mysqlwire.CapPSMultiResults | mysqlwire.CapPluginAuth |
		mysqlwire.CapPluginAuthLenenc | mysqlwire.CapConnectAttrs | mysqlwire.CapDeprecateEOF
	capsNever = mysqlwire.CapSSL | mysqlwire.CapCompress | mysqlwire.CapZstdCompression |
		mysqlwire.CapOptionalMetadata | mysqlwire.CapQueryAttributes |
		mysqlwire.CapConnectWithDB | capsExtended
	capsExtended = mysqlwire.Capability(0xFFFFFFFF) << 32 // MariaDB's
)

// Validate returns an error if c is invalid.
func (c *Config) Validate() error {
	switch {
	case c.Network != "" && c.Network != "tcp" && c.Network != "unix":
		return fmt.Errorf("unknown network %q: want tcp or unix", c.Network)
	case c.Addr == "":
		return errors.New("no address to connect to")
	case !c.TLSMode.Valid():
		return fmt.Errorf("unknown %v", c.TLSMode)
	case strings.ContainsRune(c.User+c.Password+c.Database, 0):
		return errors.New("user, password and database must not contain NUL bytes")
	case c.MaxPacket < 0:
		return fmt.Errorf("negative longest packet: %d bytes", c.MaxPacket)
	case c.Capabilities&capsNever != 0:
		return fmt.Errorf("capabilities %#x are not supported", uint64(c.Capabilities&capsNever))
	case c.TLSMode == TLSVerifyIdentity && c.Network == "unix" && (c.TLS == nil || c.TLS.ServerName == ""):
		return errors.New("tls mode verify-identity over a unix socket: set a server name to verify")
	}
	return nil
}

func (c *Config) network() string {
	if c.Network == "" {
		return "tcp"
	}
	return c.Network
}

func (c *Config) maxPacket() int {
	if c.MaxPacket == 0 {
		return defaultMaxPacket
	}
	return c.MaxPacket
}

func (c *Config) charset() uint8 {
	if c.Charset == 0 {
		return DefaultCharset
	}
	return c.Charset
}

// host returns the name of the server for TLS.
func (c *Config) host() string {
	if host, _, err := net.SplitHostPort(c.Addr); err == nil {
		return host
	}
	return c.Addr
}

// attributes returns the connection attributes in wire form, in a fixed order.
func (c *Config) attributes() []byte {
	all := map[string]string{
		"_client_name": "tare",
		"_os":          runtime.GOOS,
		"_pid":         strconv.Itoa(os.Getpid()),
		"_platform":    runtime.GOARCH,
		"program_name": "tare",
	}
	maps.Copy(all, c.Attributes)
	var raw []byte
	for _, name := range slices.Sorted(maps.Keys(all)) {
		raw = mysqlwire.AppendAttribute(raw, name, all[name])
	}
	return raw
}
