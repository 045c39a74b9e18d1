//go:build cgo

package softhsm

import (
	"context"
	"log/slog"

	"k8s.io/kms/pkg/service"
)

// Service is the service of a KMS v2 plugin. It logs each request without its content.
type Service struct {
	Token *Token
	Log   *slog.Logger
}

var _ service.Service = (*Service)(nil)

// Status returns the ID of the current key.
func (s *Service) Status(context.Context) (*service.StatusResponse, error) {
	id, err := s.Token.Current()
	if err != nil {
		s.Log.Error("Failed to read the current key", "error", err)
		return nil, err
	}
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: id}, nil
}

// Encrypt encrypts with the current key.
func (s *Service) Encrypt(_ context.Context, uid string, data []byte) (*service.EncryptResponse, error) {
	ciphertext, id, err := s.Token.Encrypt(data)
	if err != nil {
		s.Log.Error("Failed to encrypt", "uid", uid, "error", err)
		return nil, err
	}
	s.Log.Info("Encrypted", "uid", uid, "key", id)
	return &service.EncryptResponse{
		Ciphertext:  ciphertext,
		KeyID:       id,
		Annotations: map[string][]byte{"softhsm.realmkeeper.dev": []byte("1")},
	}, nil
}

// Decrypt decrypts with the key of the request.
func (s *Service) Decrypt(_ context.Context, uid string, request *service.DecryptRequest) ([]byte, error) {
	plaintext, err := s.Token.Decrypt(request.Ciphertext, request.KeyID)
	if err != nil {
		s.Log.Error("Failed to decrypt", "uid", uid, "key", request.KeyID, "error", err)
		return nil, err
	}
	s.Log.Info("Decrypted", "uid", uid, "key", request.KeyID)
	return plaintext, nil
}
