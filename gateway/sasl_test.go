package gateway_test

import (
	"testing"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// saslSwitch requests a mechanism of an LDAP account.
func saslSwitch(mechanism string) []byte {
	return mysqlwire.AuthSwitchRequest{Plugin: []byte("authentication_ldap_sasl_client"), Data: []byte(mechanism)}.AppendTo(nil)
}

// TestProvingMechanisms passes the steps of mechanisms of LDAP accounts that send no password.
func TestProvingMechanisms(t *testing.T) {
	for _, mechanism := range []string{"SCRAM-SHA-1", "SCRAM-SHA-256\x00", "GSSAPI"} {
		back := testscript.Start(t, func(_ int, b *mysqlconn.Conn) {
			if b.WriteMessage(testscript.Greeting()) != nil {
				return
			}
			if _, err := b.ReadMessage(1 << 16); err == nil {
				asks(b, saslSwitch(mechanism), []byte("\x01r=nonce,s=salt,i=4096"))
			}
		})
		g := startGateway(t, back, func(o *gateway.Options) { o.Backend.TLS = mysqlconn.TLSDisabled })
		if _, err := dialObedient(t, g.addr, "mysql_native_password", nil); err != nil {
			t.Errorf("%s: %v", mechanism, err)
		}
	}
}
