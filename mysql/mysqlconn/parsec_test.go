package mysqlconn

import (
	"bytes"
	"crypto/ed25519"
	"crypto/pbkdf2"
	"crypto/sha512"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// TestSignParsec verifies responses as a server does: by the public key that derives from the password.
func TestSignParsec(t *testing.T) {
	salt := []byte("eighteen bytes too")
	for _, password := range passwords {
		for factor := range byte(4) {
			response, err := signParsec(password, challenge32, slices.Concat([]byte{'P', factor}, salt))
			if err != nil {
				t.Fatal(err)
			}
			seed, err := pbkdf2.Key(sha512.New, password, salt, 1024<<factor, ed25519.SeedSize)
			if err != nil {
				t.Fatal(err)
			}
			public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
			if len(response) != challengeParsec+ed25519.SignatureSize || !ed25519.Verify(public, slices.Concat(challenge32, response[:challengeParsec]), response[challengeParsec:]) {
				t.Errorf("%q, factor %d: %x is no signature", password, factor, response)
			}
		}
	}
	a, _ := signParsec("a", challenge32, []byte("P\x00salt"))
	if b, _ := signParsec("a", challenge32, []byte("P\x00salt")); bytes.Equal(a[:challengeParsec], b[:challengeParsec]) {
		t.Error("two responses have one challenge")
	}
}

// TestBadParsec has packets of servers that are not MariaDB's.
func TestBadParsec(t *testing.T) {
	for name, c := range map[string]struct{ challenge, derivation, want string }{
		"a short challenge":   {string(challenge32[1:]), "P\x00salt", "challenge of 31 bytes, want 32"},
		"a long challenge":    {string(challenge32) + "xx", "P\x00salt", "challenge of 34 bytes, want 32"},
		"no derivation":       {string(challenge32), "", "requests a derivation of the key by , want"},
		"no factor":           {string(challenge32), "P", "by 50, want"},
		"no salt":             {string(challenge32), "P\x00", "by 50 00, want"},
		"another derivation":  {string(challenge32), "Q\x00salt", "by 51 00, want"},
		"a factor of minutes": {string(challenge32), "P\x09salt", "by 50 09, want"},
	} {
		x := &exchange{password: "secret"}
		first, err := x.start(PluginParsec, []byte(c.challenge))
		if err != nil || first == nil || len(first) != 0 {
			t.Errorf("%s: the first response is %q, %v", name, first, err)
		}
		if response, err := x.next([]byte(c.derivation)); err == nil || !strings.Contains(err.Error(), c.want) || response != nil {
			t.Errorf("%s: got %q, %v, want %s", name, response, err, c.want)
		}
	}
	x := &exchange{password: "secret"}
	_, _ = x.start(PluginParsec, append(slices.Clone(challenge32), 0)) // ended by a NUL, as the other methods' are
	if _, err := x.next([]byte("P\x08salt")); err != nil {
		t.Errorf("the greatest factor: %v", err)
	}
	if _, err := x.next([]byte("P\x00salt")); err == nil || !strings.Contains(err.Error(), errNeedResponse.Error()) {
		t.Errorf("a second derivation: %v", err)
	}
}

// TestParsecOnMariaDB logs in to a MariaDB that has the method, 11.6 or later: that of TARE_MARIADB_DIR, or of PATH.
func TestParsecOnMariaDB(t *testing.T) {
	var opts []testmysql.Option
	if dir := os.Getenv("TARE_MARIADB_DIR"); dir != "" {
		opts = append(opts, testmysql.WithPrograms(dir))
	}
	s := testmysql.Start(t, append(opts, testmysql.WithTLS())...)
	if err := s.Exec("INSTALL SONAME 'auth_parsec'"); err != nil {
		t.Skipf("this MariaDB has no parsec: %v", err)
	}
	if err := s.Exec("CREATE USER ada@'%' IDENTIFIED VIA parsec USING PASSWORD('lovelace')", "CREATE USER bare@'%' IDENTIFIED VIA parsec USING PASSWORD('')"); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []TLSMode{TLSDisabled, TLSRequired} {
		c := Config{Addr: s.Addr, User: "ada", Password: "lovelace", TLSMode: mode}
		if got := scalar(t, dial(t, c), "SELECT CURRENT_USER()"); got != "ada@%" {
			t.Errorf("TLS mode %v: logged in as %s", mode, got)
		}
		c.Password = "byron"
		if conn, err := Dial(t.Context(), c); err == nil || !strings.Contains(err.Error(), "1045") {
			t.Errorf("TLS mode %v, a wrong password: %v, %v", mode, conn, err)
		}
		c.User, c.Password = "bare", ""
		if got := scalar(t, dial(t, c), "SELECT CURRENT_USER()"); got != "bare@%" {
			t.Errorf("TLS mode %v, no password: logged in as %s", mode, got)
		}
	}
}
