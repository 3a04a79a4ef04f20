import{a as p,c as m,va as o}from"./chunk-F36DBB7A.js";m(p(o,null),document.getElementById("app"));
