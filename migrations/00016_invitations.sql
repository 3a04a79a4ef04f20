-- +goose Up

-- With an invitation, of which only a hash is kept, the owner of an account sets its
-- password, once.
ALTER TABLE app_user
    ADD COLUMN invitation    bytea UNIQUE CHECK (octet_length(invitation) = 32),
    ADD COLUMN invited_until timestamptz,
    ADD CHECK ((invitation IS NULL) = (invited_until IS NULL));
