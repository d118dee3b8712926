package mysqlconn

import (
	"crypto/ed25519"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"fmt"
)

const (
	challengeParsec = 32 // bytes, of either side

	// maxParsecFactor bounds the work that a server can request: 1024 << factor rounds. MariaDB's own factors are 0 to 3.
	maxParsecFactor = 8
)

// signParsec returns the client's response by MariaDB's parsec: the client's challenge and an Ed25519 signature of the server's
// challenge followed by it. The key derives from the password as the server's second packet says: the letter P, the logarithm
// of the rounds of PBKDF2 less 10, and the salt. Like the other methods without encryption, it lets an impostor that names the
// salt try passwords against the signature afterwards. Cost: the rounds, up to 0.3 s for the most that are accepted.
//
// Specification: MariaDB "Authentication Plugin - PARSEC", RFC 8018 section 5.2, RFC 8032.
func signParsec(password string, challenge, derivation []byte) ([]byte, error) {
	if len(challenge) != challengeParsec {
		return nil, fmt.Errorf("sign by parsec: challenge of %d bytes, want %d", len(challenge), challengeParsec)
	}
	if len(derivation) < 3 || derivation[0] != 'P' || derivation[1] > maxParsecFactor {
		return nil, fmt.Errorf("sign by parsec: the server requests a derivation of the key by % x, want 50 (PBKDF2), a factor of at most %02x and a salt",
			derivation[:min(len(derivation), 2)], maxParsecFactor)
	}
	seed, err := pbkdf2.Key(sha512.New, password, derivation[2:], 1024<<derivation[1], ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("sign by parsec: %w", err)
	}
	response := make([]byte, challengeParsec, challengeParsec+ed25519.SignatureSize)
	_, _ = rand.Read(response) // never fails
	signed := append(append([]byte(nil), challenge...), response...)
	return append(response, ed25519.Sign(ed25519.NewKeyFromSeed(seed), signed)...), nil
}
