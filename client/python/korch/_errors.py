"""The exceptions of Korch: one class a kind of failure, the text is the sentence that the programs print."""


class Error(RuntimeError):
    """Anything that Korch could not do."""


class InvalidArgument(Error, ValueError):
    """A wrong call: a name, a type, a shape, an option."""


class NotSetUp(Error):
    """This host lacks something: a compiler, a driver."""


class NoSuchFile(Error, OSError):
    """A file cannot be read or written."""


class InvalidFile(Error):
    """No plan or no model; a damaged one, one of a newer Korch, or one with what Korch does not know."""


class InvalidDevice(Error):
    """A plan that was made for another kind of device."""


class OutOfMemory(Error, MemoryError):
    """More memory is needed than there is."""


class Unreachable(Error, ConnectionError):
    """The daemon does not answer."""


class Unplaceable(Error):
    """No connected worker can measure for that device."""


class Missing(Error):
    """A measurement is missing, and measuring was ruled out."""


class Untrusted(Error):
    """A plan that is signed by nobody whom this user trusts."""


class Cancelled(Error):
    """The job was cancelled."""


# Numbers of korch_status (client/lib/korch.h).
_OF_STATUS = {2: InvalidArgument, 9: NotSetUp, 21: NoSuchFile, 23: InvalidFile, 24: InvalidFile, 25: InvalidDevice,
              26: InvalidFile, 34: OutOfMemory, 44: Untrusted}
# Classes and exit statuses of the programs' errors (kernels/base/err.def).
_OF_CLASS = {"the model cannot be used": InvalidFile, "file or device error": NoSuchFile,
             "not a file of the expected format": InvalidFile, "made by a newer version": InvalidFile,
             "incompatible device": InvalidDevice, "over a limit": InvalidFile, "interrupted": Cancelled,
             "signed by nobody who is trusted": Untrusted}
_OF_EXIT = {2: InvalidArgument, 3: Unreachable, 4: Missing, 5: Unplaceable, 6: Cancelled, 78: NotSetUp}


def make(status, text):
    """The exception for a status of libkorch; called by korch._native."""
    return _OF_STATUS.get(status, Error)(text)


def of_class(words, status, text):
    """The exception for a program that failed with an error of that class, or without words, with that exit status."""
    return (_OF_CLASS.get(words) or _OF_EXIT.get(status, Error))(text)
