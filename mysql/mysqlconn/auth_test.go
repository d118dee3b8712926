package mysqlconn

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// challenge20 is a challenge in wire form, with its NUL byte.
var challenge20 = append([]byte("abcdefghijklmnopqrst"), 0)

var challenge32 = []byte("abcdefghijklmnopqrstuvwxyz012345")

var passwords = []string{"", "a", "secret", "pässwörd", strings.Repeat("long ", 30)}

// TestKnownScrambles compares the algorithms with responses computed from their specification using only
// hashes and integers, so that they cannot drift with a library.
func TestKnownScrambles(t *testing.T) {
	ed, err := SignEd25519("secret", challenge32)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"native", ScrambleNative("secret", challenge20), "8817c50fa779daef010ee7577825b0847df9842e"},
		{"sha2", ScrambleSHA2("secret", challenge20), "c76e2898612a4cf042c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae809"},
		{"ed25519", ed, "d0f66f7853ca6f44f7d6e3d4fe913f935f54818a7e3fe80462a2c39d199d0cdc05fa15934074edcaa964b4553938840317d0db36735d50d22e820fd05e3b0306"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	if _, err := SignEd25519("secret", challenge20); err == nil {
		t.Error("ed25519 signed a challenge of 21 bytes")
	}
}

func TestRSA(t *testing.T) {
	pair, err := NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParsePublicKey(pair.PublicPEM())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range passwords {
		secret, err := EncryptPassword(p, challenge20, key)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pair.DecryptPassword(secret, challenge20); err != nil || got != p {
			t.Errorf("decrypt %q: got %q, %v", p, got, err)
		}
	}
	secret, err := EncryptPassword("secret", challenge20, key)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := pair.DecryptPassword(secret, []byte("another challenge---")); err == nil {
		t.Errorf("decrypted with another challenge: %q", p)
	}
	for tries := 0; secret[0] != 0; tries++ { // one in 256; without its first byte it is still the same number
		if tries == 10_000 {
			t.Fatalf("none of %d secrets has a leading zero byte", tries)
		}
		if secret, err = EncryptPassword("secret", challenge20, key); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range [][]byte{nil, secret[1:], secret[:len(secret)-1], append([]byte{0}, secret...)} {
		if p, err := pair.DecryptPassword(wrong, challenge20); err == nil {
			t.Errorf("decrypted a secret of %d bytes, the key has %d: %q", len(wrong), len(secret), p)
		}
	}
	if _, err := EncryptPassword("secret", nil, key); err == nil {
		t.Error("encrypted without a challenge")
	}
	if _, err := EncryptPassword(strings.Repeat("x", 300), challenge20, key); err == nil {
		t.Error("encrypted a password longer than the key takes")
	}
	for _, bad := range []string{"", "no PEM", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"} {
		if _, err := ParsePublicKey([]byte(bad)); err == nil {
			t.Errorf("parsed %q", bad)
		}
	}
}

// TestExchangeNeverLeaks runs each method on a plain-text connection: no response contains the password, and
// methods that would send it fail.
func TestExchangeNeverLeaks(t *testing.T) {
	const password = "correct horse"
	for _, plugin := range []string{PluginNative, PluginSHA2, PluginSHA256, PluginEd25519, PluginClear, PluginDialog, "unknown"} {
		challenge := challenge20
		if plugin == PluginEd25519 {
			challenge = challenge32
		}
		x := &exchange{password: password, clearText: true, key: ServerKey{Request: true}}
		resp, err := x.start(plugin, challenge)
		if bytes.Contains(resp, []byte(password)) {
			t.Errorf("%s: the first answer holds the password", plugin)
		}
		switch plugin {
		case PluginClear, PluginDialog:
			if !errors.Is(err, errPlainLeg) {
				t.Errorf("%s: got %v, want ErrPlainLeg", plugin, err)
			}
		case "unknown":
			if _, ok := errors.AsType[*unknownPluginError](err); !ok {
				t.Errorf("%s: got %v, want an UnknownPluginError", plugin, err)
			}
		default:
			if err != nil {
				t.Errorf("%s: %v", plugin, err)
			}
			for _, data := range [][]byte{{mysqlwire.SHA2FullAuth}, {mysqlwire.SHA2FastOK}, []byte("no key")} {
				if resp, _ := x.next(data); bytes.Contains(resp, []byte(password)) {
					t.Errorf("%s: the answer to %x holds the password", plugin, data)
				}
			}
		}
	}
	x := &exchange{password: password, secure: true}
	if _, err := x.start(PluginClear, nil); !errors.Is(err, errClearText) {
		t.Errorf("clear text that was not allowed: got %v, want ErrClearText", err)
	}
	if _, err := x.start(PluginDialog, nil); !errors.Is(err, errClearText) {
		t.Errorf("dialog that was not allowed: got %v, want ErrClearText", err)
	}
}
