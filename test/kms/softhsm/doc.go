// Package softhsm implements the key encryption of a KMS plugin with AES keys that never leave a
// SoftHSM token. Several processes can use the same token. The package requires cgo.
package softhsm
