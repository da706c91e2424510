"""Errors that only the brain's HTTP API has."""

from hereabouts.schemas.errors import HereaboutsError


class MethodNotAllowed(HereaboutsError):
    code = "method_not_allowed"
    http_status = 405
    template = "This address does not take {method}."


class NoSuchRoute(HereaboutsError):
    code = "no_such_route"
    http_status = 404
    template = "There is nothing at this address; `/openapi.json` lists what there is."


class Draining(HereaboutsError):
    code = "draining"
    http_status = 503
    template = "This process is ending and takes no new calls. Send the request again."


class BadRequest(HereaboutsError):
    code = "bad_request"
    http_status = 400
    template = "{problem}"


class InternalError(HereaboutsError):
    code = "internal"
    http_status = 500
    template = "Something went wrong here; the log names it by its trace id."
