package bench

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// dsnForm is the form of --dsn.
const dsnForm = "user:password@tcp(host:port)/database"

// dsnTLS are the values of the parameter tls.
var dsnTLS = map[string]mysqlconn.TLSMode{
	"false": mysqlconn.TLSDisabled, "preferred": mysqlconn.TLSPreferred, "skip-verify": mysqlconn.TLSRequired, "true": mysqlconn.TLSVerifyIdentity,
}

// parseDSN parses a data source name, of the form that drivers for Go use. It never opens a connection without TLS that could give the
// password away, unless a parameter trusts the server's key.
func parseDSN(dsn string) (cfg mysqlconn.Config, err error) {
	wrong := func(what string) error { return fmt.Errorf("data source name: %s: want %s", what, dsnForm) }
	dsn, params, _ := strings.Cut(dsn, "?")
	slash := strings.LastIndexByte(dsn, '/')
	if slash < 0 {
		return cfg, wrong("no slash before the database")
	}
	at := strings.LastIndexByte(dsn[:slash], '@')
	if at < 0 {
		return cfg, wrong("no user")
	}
	cfg.User, cfg.Password, _ = strings.Cut(dsn[:at], ":")
	network, address, ok := strings.Cut(dsn[at+1:slash], "(")
	address, closed := strings.CutSuffix(address, ")")
	if !ok || !closed || address == "" {
		return cfg, wrong("no address")
	}
	cfg.Network, cfg.Addr, cfg.Database, cfg.TLSMode = network, address, dsn[slash+1:], mysqlconn.TLSDisabled
	if network == "tcp" && !strings.Contains(address, ":") {
		cfg.Addr += ":3306"
	}
	cfg.ServerKey.Options = [2]string{"public-key= in --dsn", "get-public-key=true"}
	if err := setDSNParams(&cfg, params); err != nil {
		return cfg, fmt.Errorf("data source name: %w", err)
	}
	if err := cfg.Validate(); err != nil {
		return cfg, fmt.Errorf("data source name: %w", err)
	}
	return cfg, nil
}

// setDSNParams sets what the parameters of a data source name say.
func setDSNParams(cfg *mysqlconn.Config, text string) error {
	params, err := url.ParseQuery(text)
	if err != nil {
		return err
	}
	for name, values := range params {
		value := values[len(values)-1]
		switch name {
		case "tls":
			mode, ok := dsnTLS[value]
			if !ok {
				return fmt.Errorf("tls=%s: want false, preferred, skip-verify or true", value)
			}
			cfg.TLSMode = mode
		case "public-key":
			pem, err := localstate.ReadFile(value)
			if err != nil {
				return err
			}
			if cfg.ServerKey.Key, err = mysqlconn.ParsePublicKey(pem); err != nil {
				return fmt.Errorf("public-key: %w", err)
			}
		case "get-public-key":
			if value != "true" {
				return errors.New("get-public-key: want true")
			}
			cfg.ServerKey.Request = true
		default:
			return fmt.Errorf("unknown parameter %q: want tls, public-key or get-public-key", name)
		}
	}
	return nil
}
