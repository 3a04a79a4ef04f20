import{a as p,c as m,la as o}from"./chunk-H7NBNI6A.js";m(p(o,null),document.getElementById("app"));
