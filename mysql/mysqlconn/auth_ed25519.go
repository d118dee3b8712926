package mysqlconn

import (
	"crypto/sha512"
	"fmt"

	"filippo.io/edwards25519"
)

// challengeEd25519 is the length in bytes of client_ed25519's challenge.
const challengeEd25519 = 32

// SignEd25519 returns the client's response to a challenge by MariaDB's client_ed25519: an Ed25519 signature
// of the challenge. It differs from RFC 8032 in that a password of any length replaces the seed, so
// crypto/ed25519, which requires 32 bytes, cannot be used.
//
// Specification: MariaDB "Authentication Plugin - ed25519", RFC 8032 section 5.1.6.
func SignEd25519(password string, challenge []byte) ([]byte, error) {
	if len(challenge) != challengeEd25519 {
		return nil, fmt.Errorf("sign by ed25519: challenge of %d bytes, want %d", len(challenge), challengeEd25519)
	}
	secret := sha512.Sum512([]byte(password))
	s, err := edwards25519.NewScalar().SetBytesWithClamping(secret[:32])
	if err != nil {
		return nil, fmt.Errorf("sign by ed25519: %w", err)
	}
	public := new(edwards25519.Point).ScalarBaseMult(s).Bytes()

	r, err := hashToScalar(secret[32:], challenge)
	if err != nil {
		return nil, err
	}
	commitment := new(edwards25519.Point).ScalarBaseMult(r).Bytes()
	k, err := hashToScalar(commitment, public, challenge)
	if err != nil {
		return nil, err
	}
	return append(commitment, edwards25519.NewScalar().MultiplyAdd(k, s, r).Bytes()...), nil
}

// hashToScalar returns SHA-512 of the concatenated parts, modulo the group's order.
func hashToScalar(parts ...[]byte) (*edwards25519.Scalar, error) {
	h := sha512.New()
	for _, p := range parts {
		h.Write(p)
	}
	s, err := edwards25519.NewScalar().SetUniformBytes(h.Sum(nil))
	if err != nil {
		return nil, fmt.Errorf("sign by ed25519: %w", err)
	}
	return s, nil
}
