import{a as p,c as m,na as o}from"./chunk-JI2OSJFV.js";m(p(o,null),document.getElementById("app"));
