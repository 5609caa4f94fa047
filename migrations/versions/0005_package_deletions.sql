-- A package is deleted, or a write takes it: never both.

-- A lock that is not had soon is given up: whoever waits for it holds up all who come after.
SET LOCAL lock_timeout = '5s';

CREATE TABLE package_deletions (
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    deleted_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (name, version)
);
COMMENT ON TABLE package_deletions IS 'Versions of packages that were deleted lately. A write that began before is refused; later ones are told by Spark''s analysis whether the file is there again.';
COMMENT ON COLUMN package_deletions.deleted_at IS 'when nobody used it; rows go after an hour';
