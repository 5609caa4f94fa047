"""ACLs of the session's broker, which obeys them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)


@contextmanager
def denied(bootstrap: str, resource: ResourceType, name: str, operation: AclOperation) -> Iterator[None]:
    """Everybody is denied one operation on one resource, and may do all else with it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deny = (resource, name, ResourcePatternType.LITERAL, "User:*", "*", operation, AclPermissionType.DENY)
    # An ACL ends the general permission on what it is about.
    allow = (*deny[:5], AclOperation.ALL, AclPermissionType.ALLOW)
    for future in admin.create_acls([AclBinding(*deny), AclBinding(*allow)]).values():
        future.result(10)
    try:
        yield
    finally:
        for future in admin.delete_acls([AclBindingFilter(*deny), AclBindingFilter(*allow)]).values():
            future.result(10)
